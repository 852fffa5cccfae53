package youtubesim

// language holds the words of titles and descriptions. Each topic has a word, so that a
// search in any language finds something. Phrases contain text that breaks careless
// programs: quotes, ampersands, markup, emoji of several code points, right-to-left text and
// combining accents.
type language struct {
	code    string
	topics  [len(categories) * topicsEach]string // by category
	phrases []string
	about   []string // of descriptions
}

// topicsEach is the number of topics of a category.
const topicsEach = 2

// The topics: song, concert; film, trailer; game, speedrun; football, tennis;
// travel, cooking; comedy, show; news, election; science, phone.
var languages = [...]language{
	{
		"en",
		[...]string{"song", "concert", "film", "trailer", "game", "speedrun", "football", "tennis", "travel", "cooking", "comedy", "show", "news", "election", "science", "phone"},
		[]string{`The "Best" of the Year & Beyond`, "Don't Stop Now 🔥", "You Won't Believe Part", "Official Video (4K)", "Rock 'n' Roll <Live>", "100% Real — No Cuts", "Café del Mar Sessions", "👨‍👩‍👧‍👦 Family Special", "A $5 vs. $5,000 Night", "naïve coöperation | résumé"},
		[]string{"Subscribe for more & don't forget the 🔔!", "Filmed in one take. No \"second chances\".", "Links & credits below ↓", "Write to us: <hello@example.com>"},
	},
	{
		"de",
		[...]string{"Lied", "Konzert", "Film", "Vorschau", "Spiel", "Bestzeit", "Fußball", "Tennis", "Reise", "Kochen", "Komödie", "Sendung", "Nachrichten", "Wahl", "Wissenschaft", "Telefon"},
		[]string{"Größer, schöner, höher", "Das „Beste“ aus Köln & Bonn", "Ü30-Straßenfest 🎉", "Wie geht's weiter?", "Ganz ohne Öl", "Zwölf Boxkämpfer jagen Viktor", "Märchenhafte Grüße"},
		[]string{"Abonniert den Kanal & die Glocke 🔔", "Mehr dazu in der Mediathek.", "Für Fragen: die Kommentare sind offen."},
	},
	{
		"fr",
		[...]string{"chanson", "concert", "film", "bande-annonce", "jeu", "record", "football", "tennis", "voyage", "cuisine", "comédie", "émission", "actualités", "élection", "science", "téléphone"},
		[]string{"L'été à l'hôtel", "Où es-tu, cœur ?", "« Ça va » & c'est tout", "À bientôt, Noël 🎄", "Garçon, l'addition !", "Dès demain, déjà-vu", "Œuvres complètes"},
		[]string{"Abonnez-vous & activez la 🔔 !", "Tout est dans l'épisode d'hier.", "Réalisé à Montréal."},
	},
	{
		"es",
		[...]string{"canción", "concierto", "película", "tráiler", "juego", "récord", "fútbol", "tenis", "viaje", "cocina", "comedia", "programa", "noticias", "elección", "ciencia", "teléfono"},
		[]string{"¿Qué pasó ayer?", "¡Mañana más!", "El niño & la cigüeña", "Corazón de piedra 💔", "Año nuevo, vida nueva", "Pingüinos en acción", "\"Así es la vida\""},
		[]string{"Suscríbete & activa la 🔔", "Grabado en Bogotá y Ciudad de México.", "¡Gracias por los comentarios!"},
	},
	{
		"pt",
		[...]string{"canção", "concerto", "filme", "prévia", "jogo", "recorde", "futebol", "tênis", "viagem", "cozinha", "comédia", "programa", "notícias", "eleição", "ciência", "telefone"},
		[]string{"Coração de São Paulo", "Não é possível! 😱", "Pão de açúcar & açaí", "Até amanhã, irmão", "\"Você\" ao vivo", "Três lições", "Às vezes, à noite"},
		[]string{"Inscreva-se & ative o 🔔", "Gravado ao vivo no Rio.", "Não esqueça do comentário!"},
	},
	{
		"hi",
		[...]string{"गाना", "संगीत समारोह", "फ़िल्म", "ट्रेलर", "खेल", "रिकॉर्ड", "फुटबॉल", "टेनिस", "यात्रा", "खाना", "हास्य", "कार्यक्रम", "समाचार", "चुनाव", "विज्ञान", "फ़ोन"},
		[]string{"नया साल मुबारक 🎊", "क्या आप जानते हैं?", "दिल्ली & मुंबई", "सच्ची कहानी", "\"पहला\" प्यार", "ज़िंदगी के रंग", "श्री क्षत्रिय ज्ञान"},
		[]string{"चैनल को सब्सक्राइब करें 🔔", "पूरा वीडियो ज़रूर देखें।", "आपके सुझाव नीचे लिखें।"},
	},
	{
		"ja",
		[...]string{"歌", "コンサート", "映画", "予告編", "ゲーム", "タイムアタック", "サッカー", "テニス", "旅行", "料理", "お笑い", "番組", "ニュース", "選挙", "科学", "スマホ"},
		[]string{"【公式】夏の思い出", "東京の夜・第二夜", "ガチでやってみた！", "「さよなら」の理由", "春夏秋冬 & 花鳥風月", "猫と暮らす🐈", "超〜簡単レシピ"},
		[]string{"チャンネル登録お願いします🔔", "撮影：大阪・京都", "毎週金曜日に更新中！"},
	},
	{
		"ko",
		[...]string{"노래", "콘서트", "영화", "예고편", "게임", "기록", "축구", "테니스", "여행", "요리", "코미디", "방송", "뉴스", "선거", "과학", "휴대폰"},
		[]string{"서울의 밤 🌃", "진짜 이야기", "[공식] 뮤직비디오", "오늘 뭐 먹지?", "\"안녕\" & 잘 가", "처음 만난 날", "한국어 배우기"},
		[]string{"구독과 좋아요 부탁드려요 🔔", "매주 토요일 업로드", "촬영지: 부산"},
	},
	{
		"zh",
		[...]string{"歌曲", "演唱會", "電影", "預告片", "遊戲", "紀錄", "足球", "網球", "旅行", "烹飪", "喜劇", "節目", "新聞", "選舉", "科學", "手機"},
		[]string{"台北的夜市 🍜", "【完整版】未來世界", "你一定不知道", "「再見」與重逢", "春天 & 秋天", "第一次出國", "龍飛鳳舞"},
		[]string{"歡迎訂閱頻道 🔔", "拍攝地點：香港", "每週更新，敬請期待。"},
	},
	{
		"th",
		[...]string{"เพลง", "คอนเสิร์ต", "ภาพยนตร์", "ตัวอย่าง", "เกม", "สถิติ", "ฟุตบอล", "เทนนิส", "ท่องเที่ยว", "ทำอาหาร", "ตลก", "รายการ", "ข่าว", "เลือกตั้ง", "วิทยาศาสตร์", "โทรศัพท์"},
		[]string{"กรุงเทพยามค่ำคืน 🌙", "รักแท้ & คำสัญญา", "ไม่น่าเชื่อ!", "\"ครั้งแรก\" ของฉัน", "น้ำใจไทย", "เที่ยวทั่วไทย", "ของแท้ร้อยเปอร์เซ็นต์"},
		[]string{"กดติดตามและกดกระดิ่ง 🔔", "ถ่ายทำที่เชียงใหม่", "ขอบคุณที่รับชมครับ"},
	},
	{
		"ar",
		[...]string{"أغنية", "حفلة", "فيلم", "إعلان", "لعبة", "رقم قياسي", "كرة القدم", "تنس", "سفر", "طبخ", "كوميديا", "برنامج", "أخبار", "انتخابات", "علوم", "هاتف"},
		[]string{"ليلة في القاهرة 🌙", "هل تعلم؟", "«الحقيقة» كاملةً", "قصة حُبّ & وداع", "مِن القلب إلى القلب", "الحلقة الأخيرة", "٢٠ سؤالاً"},
		[]string{"اشترك في القناة وفعّل الجرس 🔔", "تم التصوير في بيروت.", "شكراً لكم جميعاً"},
	},
	{
		"he",
		[...]string{"שיר", "הופעה", "סרט", "קדימון", "משחק", "שיא", "כדורגל", "טניס", "טיול", "בישול", "קומדיה", "תוכנית", "חדשות", "בחירות", "מדע", "טלפון"},
		[]string{"לילה בתל־אביב 🌃", "האמת \"כולה\"", "צה״ל & שלום", "מה קורה היום?", "שָׁלוֹם לכולם", "הפרק האחרון"},
		[]string{"הירשמו לערוץ 🔔", "צולם בחיפה.", "תודה על הצפייה!"},
	},
	{
		"ru",
		[...]string{"песня", "концерт", "фильм", "трейлер", "игра", "рекорд", "футбол", "теннис", "путешествие", "кулинария", "комедия", "передача", "новости", "выборы", "наука", "телефон"},
		[]string{"Ёлки и «снег»", "Лучшее за год & не только", "Как это сделано?", "Москва — Владивосток 🚂", "Съешь ещё этих булок", "Первый раз"},
		[]string{"Подписывайтесь и жмите 🔔", "Снято в Казани.", "Пишите в комментариях!"},
	},
	{
		"uk",
		[...]string{"пісня", "концерт", "фільм", "трейлер", "гра", "рекорд", "футбол", "теніс", "подорож", "кулінарія", "комедія", "передача", "новини", "вибори", "наука", "телефон"},
		[]string{"Їжак і «зорі» ✨", "Об'єднані & сильні", "Що далі?", "Київ уночі", "Ґанок і ґава"},
		[]string{"Підписуйтесь на канал 🔔", "Знято у Львові.", "Дякуємо за перегляд!"},
	},
	{
		"tr",
		[...]string{"şarkı", "konser", "film", "fragman", "oyun", "rekor", "futbol", "tenis", "gezi", "yemek", "komedi", "program", "haber", "seçim", "bilim", "telefon"},
		[]string{"İstanbul'da bir gece 🌉", "Gerçek \"hikâye\"", "Işık & gölge", "Çok güzel hareketler", "Ağrı Dağı'na doğru"},
		[]string{"Abone olun & zili açın 🔔", "İzmir'de çekildi.", "Yorumlarınızı bekliyoruz!"},
	},
	{
		"pl",
		[...]string{"piosenka", "koncert", "film", "zwiastun", "gra", "rekord", "piłka nożna", "tenis", "podróż", "gotowanie", "komedia", "program", "wiadomości", "wybory", "nauka", "telefon"},
		[]string{"Zażółć gęślą jaźń", "„Żółw” & spółka", "Świąteczny odcinek 🎄", "Łódź nocą", "Co się stało?"},
		[]string{"Zasubskrybuj & kliknij 🔔", "Nagrano w Krakowie.", "Dziękujemy za komentarze!"},
	},
	{
		"el",
		[...]string{"τραγούδι", "συναυλία", "ταινία", "τρέιλερ", "παιχνίδι", "ρεκόρ", "ποδόσφαιρο", "τένις", "ταξίδι", "μαγειρική", "κωμωδία", "εκπομπή", "ειδήσεις", "εκλογές", "επιστήμη", "τηλέφωνο"},
		[]string{"Νύχτα στην Αθήνα 🌃", "«Άλλη» μία φορά", "Ήλιος & θάλασσα", "Ποιος φταίει;"},
		[]string{"Κάντε εγγραφή 🔔", "Γυρίστηκε στη Θεσσαλονίκη."},
	},
	{
		"vi",
		[...]string{"bài hát", "hòa nhạc", "phim", "đoạn giới thiệu", "trò chơi", "kỷ lục", "bóng đá", "quần vợt", "du lịch", "nấu ăn", "hài", "chương trình", "tin tức", "bầu cử", "khoa học", "điện thoại"},
		[]string{"Đêm Hà Nội 🌃", "Sự thật \"bất ngờ\"", "Phở & bún bò Huế", "Lần đầu tiên"},
		[]string{"Đăng ký kênh & bật 🔔", "Quay tại Đà Nẵng."},
	},
}
